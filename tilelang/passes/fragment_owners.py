"""Which team of a block each fragment belongs to, and so which threads run the statements that touch it.

In:  a function whose warps may run code of their own (`ir.teams`).
Out: FragmentOwners: the team behind every fragment and statement. A fragment that a team touches belongs to
     it (or to several of one size, each with its copy); what the whole block does with it, the team does
     alone.
Not: layouts (`infer_layouts`); barriers.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.order import FRAGMENT_OF_A_TEAM
from tilelang.ir.spans import place_of
from tilelang.ir.teams import Team, branches, thread_numbers
from tilelang.passes.accesses import Access, accesses, all_accesses, storages
from tilelang.passes.walk import FRAGMENT, children, loop_kind, walk


class FragmentOwners:
    """The owners of the fragments of `func`, a launch of `threads` threads a block.

    teams: whether warps that run code of their own share tile operations among themselves; without them all
    belongs to the block.
    """

    def __init__(self, func: X.PrimFunc, threads: int, teams: bool) -> None:
        self.block = Team(0, threads)
        self.lent: dict[int, Team] = {}
        """Statements of the whole block that work on a team's fragments -> the team."""
        self._storages = storages(func.body)
        self._numbers = thread_numbers(thread_axes(func.body)) if teams else {}
        self._owners: dict[int, list[Team]] = {}  # fragment -> the teams that touch it
        self._kept: list[Any] = []  # statements, so that their handles stay theirs
        self._find(func.body, self.block)
        while self._owners and self._spread(func.body):
            pass

    def root(self, handle: int) -> int:
        """The buffer whose memory a buffer names, by their handles."""
        return self._storages.get(handle, handle)

    def owner_of(self, handle: int) -> Team:
        """The team that a fragment is spread over, or the block."""
        owners = self._owners.get(self.root(handle))
        return owners[0] if owners else self.block

    def threads_of(self, handle: int) -> int:
        """Threads that a fragment is spread over."""
        return self.owner_of(handle).threads

    def children(self, stmt: Any, team: Team) -> list[tuple[Any, Team]]:
        """The child statements of `stmt`, which stands in code of `team`, each with the team that runs it."""
        if not isinstance(stmt, X.IfThenElse):
            return [(child, team) for child in children(stmt)]
        parted = (branches(stmt.condition, self._numbers, team) if self._numbers else None) or (None, None)
        return [(child, part or team) for child, part in zip(children(stmt), parted, strict=False)]

    def runs(self, stmt: Any, team: Team) -> Team:
        """The team that runs `stmt`, which stands in code of `team`: the owner of its fragments.

        Raises KernelError where they belong to another team than the one that the statement stands in.
        """
        used = {a.buffer.__chandle__(): a.buffer for a in all_accesses(stmt) if a.buffer.scope() == FRAGMENT}
        for handle, buffer in used.items():
            owners = self._owners.get(self.root(handle), [])
            sizes = {t.threads for t in owners}
            if not owners or (team in owners and len(sizes) == 1):
                continue
            if team != self.block or len(owners) > 1:
                first, other = owners[0], next((t for t in owners if t != owners[0]), team)
                whose = "the whole block" if other == self.block else str(other)
                problem = FRAGMENT_OF_A_TEAM.at(
                    place_of(stmt.span), buffer=str(buffer.name), first=str(first), other=whose
                )
                raise KernelError([problem])
            self.lent[stmt.__chandle__()] = owners[0]
            self._kept.append(stmt)
            team = owners[0]
        return team

    def _find(self, stmt: Any, team: Team) -> None:
        """Note which teams touch which fragments."""
        parallel = loop_kind(stmt) == "Parallel"
        if team != self.block:
            for access in all_accesses(stmt) if parallel else accesses(stmt):
                self._own(access, team)
        for child, inside in () if parallel else self.children(stmt, team):
            self._find(child, inside)

    def _own(self, access: Access, team: Team) -> None:
        known = self._owners.setdefault(self.root(access.buffer.__chandle__()), [])
        if access.buffer.scope() == FRAGMENT and team not in known:
            known.append(team)

    def _spread(self, stmt: Any) -> bool:
        """What the block does with a team's fragment makes the other fragments of the statement the team's
        too; whether that was news.
        """
        inner = [] if loop_kind(stmt) == "Parallel" else self.children(stmt, self.block)
        news = [self._spread(child) for child, team in inner if team == self.block]
        if inner:
            return any(news)
        found = [a for a in all_accesses(stmt) if a.buffer.scope() == FRAGMENT]
        roots = {self.root(a.buffer.__chandle__()) for a in found}
        teams = {team for root in roots for team in self._owners.get(root, ())}
        fresh = [root for root in roots if not self._owners.get(root)]
        if len(teams) == 1:
            self._owners.update({root: list(teams) for root in fresh})
        return len(teams) == 1 and bool(fresh)


def thread_axes(body: Any) -> list[tuple[int, int]]:
    """(handle, extent) of the thread variables of a launch, x first."""
    found = [
        s for s in walk(body) if isinstance(s, X.AttrStmt) and str(s.node.thread_tag).startswith("threadIdx")
    ]
    found.sort(key=lambda s: str(s.node.thread_tag))
    return [(s.node.var.__chandle__(), int(s.value)) for s in found]
