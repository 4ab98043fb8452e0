"""An HTTP server in OpenAI's form, on the engine of live requests."""
