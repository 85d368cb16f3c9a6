"""An evaluation of edit_file: how often a model gets one line of a file changed, and what the tool makes of its slips.

``python -m bench.edit_eval`` plays scripted models that make the known slips; with ``--openai URL`` or ``--bedrock`` a
real one is asked. Every call goes through the real tools over the local system.
"""
