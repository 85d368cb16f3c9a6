"""``workbench admin`` and ``workbench download``: a deployment, local or in AWS, looked after from the command line."""
