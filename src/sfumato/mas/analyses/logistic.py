"""Binary logistic regression."""

from __future__ import annotations

from sfumato.contract import param
from sfumato.errors import DataError, ParameterError, listing, unknown_name
from sfumato.mas.answer import Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.models.complete import within
from sfumato.mas.models.layout import LevelOutcome
from sfumato.mas.models.levels_model import ONE_OUTCOME, LevelsAnalysis, Modelled
from sfumato.mas.models.model import Levels, least_cell
from sfumato.mas.models.numbers import Number
from sfumato.mas.question import Question
from sfumato.mas.variable import MISSING, Variable, level_text


class Logistic(LevelsAnalysis):
    """Logistic regression of one level of the outcome against all others, or of a number that is 0 or 1.

    Of two levels the second one is modelled, unless `event` names the other; of more, `event` must be given.
    """

    event: str | None = param(default=None, doc="the level of the outcome that is modelled")

    def validate(self) -> None:
        """Refuse what is not a formula; the event may be a number, and is the level of that name."""
        super().validate()
        if self.event is not None:
            object.__setattr__(self, "event", level_text(self.event))

    def wording(self) -> str:
        """Return the canonical wording, without knowing what the variables are."""
        return f"{super().wording()}:{self.event or ''}"

    def wording_for(self, dataset: Dataset) -> str:
        """Return the canonical wording: of two levels the second one is the event."""
        function, name = self.terms(dataset.variables).outcome
        levels = [level for level in dataset.variables[name].levels if level != MISSING]
        usual_event = levels[-1] if function == "C" and len(levels) == 2 else "1" if not function else None
        return f"{super().wording_for(dataset)}:{self._level(dataset.variables[name]) or usual_event}"

    def _level(self, variable: Variable) -> str | None:
        """Return the level that the event names: by its code, or by what the code means."""
        if self.event in variable.words:
            return variable.levels[variable.words.index(self.event)]
        return self.event

    def modelled(self, question: Question) -> Modelled | Refusal:
        """Return the event and the others."""
        function, name = self.terms(question.dataset.variables).outcome
        variable = question.dataset.variables[name]
        if function not in ("", "C"):
            raise ParameterError(f"the outcome of logistic is a level of '{name}', not a function of it.")
        if function == "":
            if self.event not in (None, "1"):
                raise ParameterError(
                    f"the outcome '{name}' is a number: its event is 1. Write C({name}) for its levels."
                )
            number = Number.of(variable, "", False)
            outcome = LevelOutcome(number.column, ("0", name), (), number)
            return Modelled(outcome, (f"{name} = 0", f"{name} = 1"), f"The modelled outcome is {name} = 1.")
        levels = Levels.of(question, variable)
        if len(levels.allowed) < 2:
            return ONE_OUTCOME
        given, outcomes = self._level(variable), [level for level in variable.levels if level != MISSING]
        if given is None and len(levels.allowed) > 2:
            raise ParameterError(
                f"'{name}' has more than two levels here. Say which one is modelled with event=, or use multinomial. "
                f"Levels: {listing(outcomes, 20)}."
            )
        if given is not None and given not in outcomes:
            named = dict.fromkeys((*outcomes, *(word for word in variable.words if word != MISSING)))
            raise DataError(unknown_name("level", given, named, f"the outcome '{name}'"))
        event = levels.allowed[-1] if given is None else variable.levels.index(given)
        if event not in levels.allowed:
            return ONE_OUTCOME
        flip = len(levels.allowed) == 2 and event == levels.allowed[0]  # of two levels one is fitted, with one noise
        fitted = levels.allowed[-1] if flip else event
        others = tuple(i for i in levels.allowed if i != event)
        least = max(least_cell(question), 1)
        sizes = levels.counts[event], question.count(within(question, {variable: others}))
        question.results["small outcomes"] = min(sizes) < least
        place = tuple(-1 if i not in levels.allowed else int(i == fitted) for i in range(len(variable.levels)))
        titles = ("others", f"C({name})[{variable.levels[fitted]}]")
        said = f"{name} = {variable.levels[event]}"
        names = (said, f"{name} = {variable.levels[fitted]}") if flip else (f"others than {said}", said)
        return Modelled(LevelOutcome(variable.codes, titles, place), names, f"The modelled outcome is {said}.", flip)
