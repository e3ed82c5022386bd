"""Models that come with perdure: a scripted one, and OpenAI-compatible endpoints."""

from __future__ import annotations

from .openai import OpenAIModel
from .scripted import Scripted

__all__ = ["OpenAIModel", "Scripted"]
