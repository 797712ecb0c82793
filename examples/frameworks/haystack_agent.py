"""A Haystack pipeline that answers from documents under test; needs haystack-ai, and OPENAI_API_KEY."""

from haystack import Document, Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import Contains
from dokimos.integrations import haystack

TEMPLATE = "{% for each in documents %}{{ each.content }} {% endfor %}Question: {{ query }}"

store = InMemoryDocumentStore()
store.write_documents(
    [Document(content="A refund takes 30 days."), Document(content="Shipping a parcel takes 5 days.")]
)
pipeline = Pipeline()
pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=1))
pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)], required_variables="*"))
pipeline.add_component("llm", OpenAIChatGenerator(model="gpt-5-mini"))
pipeline.connect("retriever.documents", "prompt.documents")
pipeline.connect("prompt.prompt", "llm.messages")

examples = Dataset(
    [
        Example({"input": "How long does a refund take?"}, {"output": "30 days"}),
        Example({"input": "How long does shipping take?"}, {"output": "5 days"}),
    ]
)
task = haystack.as_task(pipeline, metadata_key="sources", needs_context=True)

result = evaluate(examples, task, [Contains(values=["days"])])

for item in result.runs[0].item_results:
    print(f"{item.actual_outputs['output']} (from: {item.actual_outputs['contexts']})")
print(f"pass rate {result.pass_rate:.0%}")
