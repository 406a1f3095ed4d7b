# Sourced by bin/tg and bin/test: makes .venv once, and again when what it was made from has changed.
# POSIX sh; needs Python 3.11 or newer, and on Debian and its relatives installs the venv package if missing.

root=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
venv=$root/.venv

say() { printf 'tg: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 1
}

# What the environment was made from. The path is in it because the scripts of a moved .venv point nowhere.
recipe() {
    printf '%s\n' "$root"
    cksum <"$root/setup.py"
    cksum <"$root/pyproject.toml"
}

is_ready() { # extras
    [ -x "$venv/bin/python" ] && [ -x "$venv/bin/tg" ] && [ ! -e "$venv/unfinished" ] &&
        [ "$(cat "$venv/made-for-$1" 2>/dev/null)" = "$(recipe)" ]
}

# Prints a Python that is new enough: the one behind a virtual environment, which may be the one to replace.
find_python() {
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
        "$candidate" -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1); print(sys._base_executable)' \
            2>/dev/null &&
            return
    done
    found=$(python3 --version 2>&1) || found="no python3"
    die "Python 3.11 or newer is needed and $found is here; install one, or name it: PYTHON=/path/to/python3 $0"
}

# install_package PACKAGE: installs a Debian package, or says how.
install_package() {
    command -v apt-get >/dev/null 2>&1 || die "$2"
    install="apt-get update && apt-get install -y --no-install-recommends $1"
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        die "the Debian package $1 is missing; run this, then try again: sudo sh -c '$install'"
    fi
    say "installing the Debian package $1"
    $as_root env DEBIAN_FRONTEND=noninteractive sh -c "$install" >"$venv/apt.log" 2>&1 || {
        tail -n 5 "$venv/apt.log" >&2
        die "the package $1 could not be installed; the log is $venv/apt.log"
    }
}

# Debian ships Python without ensurepip; its package for that is named after the version.
need_venv_module() { # python
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    install_package "$package" \
        "$1 comes without the modules venv and ensurepip; install them, or name another: PYTHON=/path/to/python3 $0"
    "$1" -c 'import ensurepip, venv' || die "$package is installed, and yet $1 has no venv module; try PYTHON=/path/to/python3 $0"
}

# llama.cpp is linked against OpenMP's library, which a bare Debian has not.
need_openmp() { # python
    "$1" -c 'import sys, ctypes; sys.platform != "linux" or ctypes.CDLL("libgomp.so.1")' 2>/dev/null && return
    install_package libgomp1 "the library libgomp.so.1 is missing, which the local model needs; install it and try again"
}

install() { # extras
    python=$(find_python) || exit 1
    need_venv_module "$python"
    need_openmp "$python"
    # Pip can't mend what it did not finish, so an interrupted or moved environment is made anew.
    if [ -e "$venv/unfinished" ] || ! "$venv/bin/python" -c 'import pip' 2>/dev/null ||
        [ "$(cat "$venv/made-at" 2>/dev/null)" != "$root" ]; then
        rm -rf "$venv/bin" "$venv/lib" "$venv/lib64" "$venv/include" "$venv/pyvenv.cfg"
    fi
    rm -f "$venv"/made-*
    : >"$venv/unfinished"
    if [ ! -e "$venv/pyvenv.cfg" ]; then
        "$python" -m venv "$venv" || die "the virtual environment $venv could not be made"
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root[$1]" </dev/null >&2 ||
        die "the packages could not be installed (see above); mend that and run the same command again"
    printf '%s\n' "$root" >"$venv/made-at"
    # One install serves every set of extras that it includes.
    for extras in "$1" "${1##*,}"; do recipe >"$venv/made-for-$extras"; done
    rm -f "$venv/unfinished"
}

# prepare EXTRAS: comes back when .venv has the package with these extras. One process at a time sets up; what it
# starts inherits the lock, so that a pip whose shell was killed is waited for.
prepare() {
    is_ready "$1" && return
    mkdir -p "$venv" || die "$venv can't be written; clone the project to a folder of your own"
    exec 9>"$venv/lock"
    locker=$(find_python) || exit 1
    "$locker" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 9>&9 2>/dev/null || {
        say "waiting for another set-up of $venv to end"
        "$locker" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)' 9>&9 || exit 1
    }
    if ! is_ready "$1"; then
        say "setting up $venv; this is done once and takes a minute or two"
        started=$(date +%s)
        install "$1"
        say "set up in $(($(date +%s) - started)) s"
    fi
    exec 9>&-
}
