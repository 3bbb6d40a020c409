"""lanesum in the engines that serve models: a plug-in for vLLM, one for SGLang.

Each takes the place of the engine's custom all-reduce in its groups. docs/vllm.md and docs/sglang.md say how to see that it
runs. Nothing here imports an engine or torch before the engine itself loads the plug-in.
"""
