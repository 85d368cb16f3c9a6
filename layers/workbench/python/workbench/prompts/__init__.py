"""Prompts: versioned templates. Defining, filling in and choosing them is pure; storing them needs a deployment."""

from workbench.prompts.prompt import BadPrompt, MissingVariables, Prompt, define_prompt, load_prompt_file
from workbench.prompts.splitting import BadVariants, Variant, ab_prompts

__all__ = [
    "BadPrompt",
    "BadVariants",
    "MissingVariables",
    "Prompt",
    "Variant",
    "ab_prompts",
    "define_prompt",
    "load_prompt_file",
]
