"""The main screen: the finding, the processes, and the stack of the selected one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding

from mpmon.tui.keys import APP_KEYS, MAIN_KEYS, bindings, labels, offered
from mpmon.tui.messages import Attend, EnterHost, OpenEnvironment, OpenHosts, OpenPage, OpenSignals, Selected
from mpmon.tui.panels import PANELS
from mpmon.tui.panels.finding import FindingPanel
from mpmon.tui.panels.processes import ProcessesPanel
from mpmon.tui.panels.stack import StackPanel
from mpmon.tui.screens.framed import Framed
from mpmon.tui.screens.layout import Panels

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widgets import Input

    from mpmon.tui.keys import Key
    from mpmon.tui.scene import Scene
    from mpmon.tui.widgets.panel import Panel


class MainScreen(Framed):
    """Knows which process is selected; the panels only show it."""

    AUTO_FOCUS = "ProcessesPanel"
    table: ClassVar[tuple[Key, ...]] = MAIN_KEYS

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(MAIN_KEYS),
        *(Binding(str(n), f"panel({n - 1})", show=False) for n in range(1, len(PANELS) + 1)),
        Binding("tab", "next_panel(1)", show=False),
        Binding("shift+tab", "next_panel(-1)", show=False),
    ]

    def __init__(self, *, replay: bool, withheld: Collection[str]) -> None:
        super().__init__(labels(offered((*APP_KEYS, *MAIN_KEYS), withheld), replay=replay))
        self.finding = FindingPanel()
        self.panels = tuple(panel() for panel in PANELS)
        self.selected: int | None = None
        self.selected_role = ""
        self._following = True
        self._chosen = False
        """The user has selected a process."""

    def body(self) -> ComposeResult:
        """The finding, then the panels of the table."""
        with Panels():
            yield self.finding
            yield from self.panels

    @property
    def processes(self) -> ProcessesPanel:
        """The list of processes."""
        return self.query_exactly_one(ProcessesPanel)

    @property
    def stack(self) -> StackPanel:
        """The stack of the selected process."""
        return self.query_exactly_one(StackPanel)

    def show_scene(self) -> None:
        """Passes the scene on, and moves the selection when it follows somebody."""
        if self.scene is None:
            return
        self.finding.scene = self.scene
        self.query_exactly_one(Panels).found = self.scene.finding is not None
        self._select(self._whom(self.scene))
        for panel in self.panels:
            panel.scene = self.scene

    # Selection

    def _whom(self, scene: Scene) -> int | None:
        """The first suspect while following, else whom the user chose, else who has that role now, else the first rank or the
        root; where a host or a filter hides others, one that is listed.
        """
        if there := self.processes.narrowed(scene):
            return self.selected if self.selected in there else there[0]
        if self._following and scene.first_suspect is not None:
            return scene.first_suspect
        if self.selected in scene.views and (self._chosen or self.selected != scene.snapshot.root_pid):
            return self.selected
        if not self._chosen and scene.first_rank is not None:
            return scene.first_rank
        heirs = (v.pid for v in scene.diagnosis.processes if v.role == self.selected_role)
        return next(heirs, scene.snapshot.root_pid)

    def _select(self, pid: int | None) -> None:
        if pid == self.selected:
            return
        self.selected = pid
        if self.scene is not None and pid is not None:
            self.selected_role = self.scene.role(pid)
        for panel in self.panels:
            panel.selected = pid
        self.post_message(Attend(pid))

    def on_selected(self, message: Selected) -> None:
        """The user chose a process, or something that a process uses; from now on nobody else moves the selection."""
        self._following, self._chosen = False, True
        self.processes.note = ""
        self._select(message.pid)

    def action_follow(self) -> None:
        """Follows the suspect, or lets go."""
        self._following = not self._following
        self.processes.note = "following" if self._following else ""
        self.notice("following the suspect" if self._following else "no longer following")
        self.show_scene()

    # Panels

    def action_panel(self, index: int) -> None:
        """Goes to the panel in that place; once more makes it large, or small again."""
        panels = self._panels_to_go_to()
        if index >= len(panels):
            return
        if panels[index].has_focus:
            self._enlarge(None if self.has_class("-large") else panels[index])
        else:
            self._go_to(panels[index])

    def action_next_panel(self, step: int) -> None:
        """Goes to the panel so many places further; they go round."""
        panels = self._panels_to_go_to()
        at = next((index for index, panel in enumerate(panels) if panel.has_focus), -1 if step > 0 else 0)
        self._go_to(panels[(at + step) % len(panels)])

    def _panels_to_go_to(self) -> list[Panel[Any]]:
        return [panel for panel in self.panels if panel.can_focus and not panel.absent]

    def _go_to(self, panel: Panel[Any]) -> None:
        """Gives it the keys; where one is large, this one is from now on."""
        if self.has_class("-large"):
            self._enlarge(panel)
        panel.focus()

    def _enlarge(self, chosen: Panel[Any] | None) -> None:
        self.set_class(chosen is not None, "-large")
        for panel in self.panels:
            panel.set_class(panel is chosen, "-chosen")

    def action_thread(self, step: int) -> None:
        """Another thread of the selected process."""
        self.stack.turn(step)

    # The list

    def action_tree(self) -> None:
        """Tree or list."""
        self.processes.switch()

    def action_fold(self, folded: bool) -> None:  # noqa: FBT001  Textual passes arguments by place
        """Folds or unfolds the branch under the cursor."""
        self.processes.fold(folded=folded)

    def action_fold_all(self) -> None:
        """Folds or unfolds all branches."""
        self.processes.fold_all()

    def action_sort(self, columns_further: int) -> None:
        """Sorts by another column."""
        self.processes.sort_by(columns_further)

    def action_invert(self) -> None:
        """Inverts the order."""
        self.processes.invert()

    # Filter

    async def action_filter(self) -> None:
        """Opens the line that takes the filter; the next key is for it already."""
        from mpmon.tui.widgets.filter import FilterLine

        if not self.query("FilterLine"):
            line = FilterLine(self.processes.filter)
            await self.mount(line, before=self.keys)
            self.set_focus(line.field)

    def on_input_changed(self, message: Input.Changed) -> None:
        """Filters while the user types, and selects what matches."""
        self.processes.set_filter(message.value)
        matching = self.processes.matching()
        if matching and self.selected not in matching:
            self._select(matching[0])

    def on_input_submitted(self) -> None:
        """Keeps the filter and closes its line."""
        self.query("FilterLine").remove()
        self.processes.focus()

    def action_clear(self) -> None:
        """Closes what is open, the smallest thing first."""
        if self.query("FilterLine") or self.processes.filter:
            self.query("FilterLine").remove()
            self.processes.set_filter("")
            self.processes.focus()
            self.show_scene()
        elif self.has_class("-large"):
            self._enlarge(None)
        elif self.processes.host:
            self.post_message(EnterHost(""))

    def action_match(self, step: int) -> None:
        """The next process that matches, or the one before."""
        if self.processes.filter:
            self.processes.next_match(step)
        else:
            self.notice("no filter: / sets one")

    # Pages

    def action_page(self, name: str) -> None:
        """A page of `mpmon.tui.screens.pages`, about the selected process if it is about one; of ranks that are not at hand
        there are no details but their hosts.
        """
        if name == "details" and self.processes.has_focus and self.processes.is_on_class:
            self._go_to_class(self.processes.hosts_of_class())
        else:
            self.post_message(OpenPage(name, self.selected))

    # Machines

    def _go_to_class(self, hosts: Sequence[str]) -> None:
        """Into the machine of ranks that are not at hand; of several the user chooses one."""
        if len(hosts) == 1 and hosts[0] != self.processes.host:
            self.post_message(EnterHost(hosts[0]))
        else:
            self.post_message(OpenHosts(next(iter(hosts), "")))

    def action_hosts(self) -> None:
        """The page of machines, at that of the selected process."""
        name = self.scene.hosts.name(self.selected or 0) if self.scene else ""
        self.post_message(OpenHosts(self.processes.host or name))

    def enter(self, host: str) -> None:
        """Lists the processes of one machine, or of all again."""
        self.processes.enter(host)
        self.show_scene()

    def action_environment(self) -> None:
        """All its variables."""
        if self.selected is not None:
            self.post_message(OpenEnvironment(self.selected))

    # Signals

    def action_signals(self) -> None:
        """To the tagged processes, or to the selected one."""
        self.post_message(OpenSignals(self.processes.chosen()))

    def action_tag(self) -> None:
        """Tags the selected process."""
        self.processes.tag()

    def action_tag_branch(self) -> None:
        """Tags it with everything below it."""
        self.notice(self.processes.tag_branch())

    def action_untag(self) -> None:
        """Untags all."""
        self.processes.untag()
