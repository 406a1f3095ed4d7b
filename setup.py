"""What the distribution is called and what it needs; tool settings live in pyproject.toml."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent

REQUIRES = [
    "aiohttp>=3.12,<4",
    "alembic>=1.16,<2",
    "bm25s>=0.2.14,<0.4",
    "jinja2>=3.1.6,<4",
    "jsonschema-rs==0.61.2",
    "mcp>=2.3,<3",
    "httpx2>=2.12,<3",
    "openai[aiohttp]>=3.50,<4",
    "opentelemetry-api>=1.37,<2",
    "prometheus-client>=0.22,<1",
    "pulsar-client>=3.13,<4",
    "pulsar-lite==0.2.0; sys_platform == 'linux' and platform_machine == 'x86_64'",
    "pydantic>=2.12,<3",
    "pyyaml>=6,<7",
    "rich>=14,<16",
    "sqlalchemy>=2.0.44,<3",
    "structlog>=25,<27",
    "typer>=0.20,<1",
]

EXTRAS = {
    "local": ["mcp-server-time>=2026.1", "xllamacpp==2026.10.11549"],
    "postgres": ["psycopg[binary]>=3.2,<4"],
    "test": [
        "psycopg[binary]>=3.2,<4",
        "hypothesis>=6.140,<7",
        "mcp-server-time>=2026.1",
        "mypy>=2,<3",
        "pytest>=9,<10",
        "pytest-asyncio>=1.2,<2",
        "ruff>=0.17,<0.18",
        "types-PyYAML",
    ],
}

COMMANDS = [
    "tg = trustgraph_flow.cli.main:main",
    "tg-set-tool = trustgraph_flow.cli.tools:set_tool",
    "tg-show-tools = trustgraph_flow.cli.tools:show_tools",
    "tg-delete-tool = trustgraph_flow.cli.tools:delete_tool",
    "tg-set-mcp-tool = trustgraph_flow.cli.mcp_tools:set_mcp_tool",
    "tg-show-mcp-tools = trustgraph_flow.cli.mcp_tools:show_mcp_tools",
    "tg-delete-mcp-tool = trustgraph_flow.cli.mcp_tools:delete_mcp_tool",
    "tg-sign-in-mcp = trustgraph_flow.cli.mcp_tools:sign_in_mcp",
    "tg-invoke-mcp-tool = trustgraph_flow.cli.mcp_tools:invoke_mcp_tool",
    "tg-show-config = trustgraph_flow.cli.config_items:show_config",
    "tg-list-config-items = trustgraph_flow.cli.config_items:list_config_items",
    "tg-get-config-item = trustgraph_flow.cli.config_items:get_config_item",
    "tg-put-config-item = trustgraph_flow.cli.config_items:put_config_item",
    "tg-delete-config-item = trustgraph_flow.cli.config_items:delete_config_item",
    "tg-set-prompt = trustgraph_flow.cli.prompts:set_prompt",
    "tg-show-prompts = trustgraph_flow.cli.prompts:show_prompts",
    "tg-invoke-prompt = trustgraph_flow.cli.prompts:invoke_prompt",
    "tg-invoke-agent = trustgraph_flow.cli.agent:invoke_agent",
]

setup(
    name="trustgraph-flow-react",
    version="0.1.0",
    description="A ReACT agent on Apache Pulsar whose MCP tools declare their arguments",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=[*find_packages(include=["trustgraph_flow", "trustgraph_flow.*"]), "trustgraph_flow.defaults"],
    package_dir={"trustgraph_flow.defaults": "config"},
    package_data={
        "trustgraph_flow": ["py.typed"],
        "trustgraph_flow.defaults": ["*.yaml"],
        "trustgraph_flow.gateway": ["static/*.html"],
        "trustgraph_flow.store": ["migrations/*.py", "migrations/versions/*.py"],
    },
    install_requires=REQUIRES,
    extras_require=EXTRAS,
    entry_points={"console_scripts": COMMANDS},
)
