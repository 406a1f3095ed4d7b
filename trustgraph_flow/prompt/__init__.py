"""Prompts: the operators' Jinja2 templates, and the service that fills them and asks the model."""

from .prompt_set import PromptSet
from .service import PromptService
from .templates import render

__all__ = ["PromptService", "PromptSet", "render"]
