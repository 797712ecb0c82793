"""A grader that looks at what the agent was given to read, not at what it said."""


def finds_the_passage(context):
    """Return whether the passage that holds the answer was among those retrieved."""
    wanted = context.turn_config["passage"]
    passages = context.retrieval_context or ()
    return any(wanted in " ".join(passage.split()) for passage in passages)
