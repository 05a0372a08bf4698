"""Modules whose import makes an instrumentor of others worth loading: entry-point name -> modules.

Instrumentors that are not listed are loaded at start, since nothing tells what they need. Ours have a table of their
own, :mod:`otel_rl.distro.own_triggers`. Names are those of the entry points in group
``opentelemetry_instrumentor``: OpenTelemetry's contrib and genai packages, OpenLLMetry's and OpenInference's.
"""

from __future__ import annotations

_OTHERS = {
    "aio-pika": ("aio_pika",),
    "aiohttp-client": ("aiohttp",),
    "aiohttp-server": ("aiohttp",),
    "bedrock": ("botocore",),
    "crewai": ("crewai",),
    "google-genai": ("google.genai",),
    "google_generativeai": ("google.generativeai", "google.genai"),
    "google_genai": ("google.genai",),
    "grpc_aio_client": ("grpc",),
    "grpc_aio_server": ("grpc",),
    "grpc_client": ("grpc",),
    "grpc_server": ("grpc",),
    "haystack": ("haystack",),
    "langchain": ("langchain_core",),
    "llama-index": ("llama_index.core",),
    "llama_index": ("llama_index.core",),
    "llamaindex": ("llama_index.core",),
    "milvus": ("pymilvus",),
    "mysql": ("mysql.connector",),
    "mysqlclient": ("MySQLdb",),
    "openai-agents": ("agents",),
    "openai_agents": ("agents",),
    "portkey": ("portkey_ai",),
    "pydantic_ai": ("pydantic_ai",),
    "qdrant": ("qdrant_client",),
    "qwen-agent": ("qwen_agent",),
    "tortoiseorm": ("tortoise",),
    "urllib": ("urllib.request",),
    "watsonx": ("ibm_watsonx_ai", "ibm_watson_machine_learning"),
    "writer": ("writerai",),
}

#: Entry points whose name is the module.
# fmt: off
_SAME_NAME = (
    "agno", "aiokafka", "aiopg", "anthropic", "asyncclick", "asyncpg", "autogen", "beeai", "boto", "boto3",
    "botocore", "cassandra", "celery", "chromadb", "click", "cohere", "confluent_kafka", "django", "dspy",
    "elasticsearch", "falcon", "fastapi", "flask", "groq", "guardrails", "httpx", "httpx2", "instructor", "jinja2",
    "kafka", "lancedb", "litellm", "marqo", "mcp", "mistralai", "ollama", "openai", "pika", "pinecone", "psycopg",
    "psycopg2", "pymemcache", "pymongo", "pymssql", "pymysql", "pyramid", "redis", "remoulade", "replicate",
    "requests", "sagemaker", "smolagents", "sqlalchemy", "sqlite3", "starlette", "together", "tornado",
    "transformers", "urllib3", "vertexai", "weaviate",
)
# fmt: on

TARGETS: dict[str, tuple[str, ...]] = {**{name: (name,) for name in _SAME_NAME}, **_OTHERS}
