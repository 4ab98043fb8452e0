"""`leapdecode serve`: a server in OpenAI's form."""

from dataclasses import replace
from importlib.util import find_spec
from typing import Annotated

import typer

from leapdecode.cli.common import reports_errors
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.options import TOKENS, MethodOption
from leapdecode.errors import OptionError
from leapdecode.methods import DEFAULT

PREFIX = "LEAPDECODE_SERVE"
PACKAGES = ("fastapi", "uvicorn", "prometheus_client")  # of leapdecode[serve], to serve at all


@reports_errors
@takes_model("fallback", words="MODEL")
def serve(
    host: Annotated[str, typer.Option(help="address to listen at; 0.0.0.0 for all")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one")] = 8000,
    served_model_name: Annotated[
        list[str] | None,
        typer.Option("--served-model-name", help="what clients call the model; may be repeated"),
    ] = None,
    method: MethodOption = DEFAULT,
    batch_size: Annotated[int, typer.Option(min=1, help="texts decoded at a time")] = 8,
    max_queue: Annotated[
        int, typer.Option(min=0, help="texts that may wait; more get status 429")
    ] = 256,
    max_tokens: Annotated[
        int, typer.Option(*TOKENS, min=1, help="most tokens of an answer")
    ] = 4096,
    max_body: Annotated[int, typer.Option(min=1000, help="most bytes of a request")] = 4 << 20,
    request_seconds: Annotated[
        float, typer.Option(min=0.1, help="a request that takes longer is ended")
    ] = 600.0,
    patience: Annotated[
        float,
        typer.Option(min=0.1, help="seconds for a client to send, to read, or between requests"),
    ] = 30.0,
    grace: Annotated[
        float, typer.Option(min=1.0, help="seconds for requests under way at SIGTERM")
    ] = 30.0,
    api_key: Annotated[
        list[str] | None, typer.Option(help="key that clients have to send; may be repeated")
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="origin of web pages that may send requests; * for all; may be repeated",
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="address or network of a proxy whose X-Forwarded-For is trusted; may be repeated",
        ),
    ] = None,
    replicas: Annotated[
        int, typer.Option(min=1, help="servers of the same model behind one port, on Ray Serve")
    ] = 1,
    log: Annotated[
        bool, typer.Option("--log/--no-log", help="a line on stderr for every request")
    ] = True,
    *,
    models: Models,
) -> None:
    """Serve a model over HTTP, as OpenAI's API: chat and completions, streaming too.

    Texts of all clients are decoded together; each is what it would be alone, where the model is
    decoded exactly. Every option can be set by an environment variable: --port by
    LEAPDECODE_SERVE_PORT, and so on; the list below names each. SIGTERM and Ctrl-C let requests
    under way finish for --grace seconds, a second one ends them. Needs fastapi and
    others: pip install -e '.[serve]' in a clone.

    Examples:

      leapdecode serve path/to/model --port 8000

      curl http://127.0.0.1:8000/v1/chat/completions -d '{"messages": [{"role": "user",
      "content": "Hello"}], "stream": true}'

      LEAPDECODE_SERVE_API_KEY=secret leapdecode serve -m path/to/model --host 0.0.0.0

      RAY_ADDRESS=head:6379 leapdecode serve -m path/to/model --replicas 4
    """
    models.check_drafts([method])
    if any(not key.strip() or key.split() != [key] for key in api_key or ()):
        raise OptionError("--api-key takes keys without spaces, of one character at least")
    from leapdecode.server.listener import bound
    from leapdecode.server.settings import Settings

    absent = [package for package in PACKAGES if find_spec(package) is None]
    if absent:
        raise OptionError(
            f"serve needs the package {absent[0]}: pip install -e '.[serve]' in a clone"
        )
    settings = Settings(
        tuple(served_model_name or ()), tuple(api_key or ()), tuple(cors or ()), method,
        max_queue, max_tokens, max_body, request_seconds, patience, grace, _say if log else None,
        tuple(proxy or ()),
    )  # fmt: skip
    listener = bound(host, port)
    if replicas > 1:
        from leapdecode.cluster.front import serve_replicas
        from leapdecode.model.load import load_tokenizer, resolve

        # a model that is not there is an error before anything is started
        load_tokenizer(
            resolve(models.model, "target"), models.trust_remote_code, not models.no_keep
        )
        if log:
            _say(f"starting {replicas} replicas")
        serve_replicas(models.open, settings, batch_size, replicas, listener, _listening)
        return
    llm = models.open()
    from leapdecode.llm import AsyncLLM
    from leapdecode.server.serving import serve as run

    settings = replace(settings, names=settings.names or (llm.name,))
    run(AsyncLLM(llm, batch_size=batch_size), settings, listener, _listening)


def _listening(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host  # an IPv6 address
    typer.echo(f"listening on http://{shown}:{port}")


def _say(line: str) -> None:
    typer.echo(line, err=True)
