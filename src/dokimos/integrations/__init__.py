"""One module for each framework, all with the same few functions.

`to_agent_trace(result)`, `to_tool_definitions(...)`, `to_call_metrics(result)`,
`run_and_trace(agent, inputs)`, `as_task(agent)`, `as_judge(agent)` and `as_application(agent)`. A framework
is imported only by the functions that need it; results are read by their attributes or keys.
"""
