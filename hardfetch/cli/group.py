"""The commands of `hardfetch`, each loaded when it is called."""

from __future__ import annotations

import errno
import importlib
import os
import sys

import click

from hardfetch._version import __version__
from hardfetch.cli import console, exits

#: Where each command is, with its line for --help. Loaded when called: a fetch should
#: not pay for what other commands import.
_COMMANDS = {
    "fetch": ("hardfetch.cli.fetch:fetch", "Fetch URLs, one NDJSON record for each."),
    "gauntlet": (
        "hardfetch.cli.gauntlet:gauntlet",
        "Run every fault against hardfetch and others.",
    ),
    "faultsite": (
        "hardfetch.cli.faultsite:faultsite",
        "Serve healthy pages and every fault on loopback.",
    ),
    "schema": ("hardfetch.cli.schema:schema", "Print the JSON Schema of a record."),
    "doctor": ("hardfetch.cli.doctor:doctor", "Tell whether this machine is fit."),
}


class _LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names."""
        return sorted({*super().list_commands(ctx), *_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{name} is no click command")
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)]
            )


def _print_versions(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    from hardfetch.cli.doctor import versions

    click.echo(f"hardfetch {__version__}")
    for name, version in versions():
        click.echo(f"{name} {version}")
    ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Print our version, curl_cffi's and libcurl's.",
)
def cli() -> None:
    """Fetch URLs under deadlines that hold: one NDJSON record for each input."""


def run(arguments: list[str]) -> int:
    """Run a command; return its exit code. Errors of users and of I/O are one line."""
    closed = console.reopen_standard_files()
    try:
        # Not click's own main, which makes a broken pipe and Ctrl-C exit code 1.
        with cli.make_context("hardfetch", arguments, obj=closed) as ctx:
            code = cli.invoke(ctx)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        code = exits.INTERRUPTED
    except BrokenPipeError:
        code = exits.SINK
    except OSError as error:
        console.say(f"hardfetch: {error.strerror or error}", patience=1.0)
        code = exits.SINK
    return _flushed(code if isinstance(code, int) else exits.OK)


def _flushed(code: int) -> int:
    """Flush stdout here, where its failure has an exit code, and not at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno != errno.EPIPE:
            console.say(f"hardfetch: stdout: {error.strerror}", patience=1.0)
        return exits.SINK
    return code
