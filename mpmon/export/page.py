"""The text that Prometheus reads, by prometheus_client, which only this module knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from mpmon.export.samples import Family

CONTENT_TYPE = CONTENT_TYPE_LATEST


class _Collector:
    """A collector for `CollectorRegistry` whose metrics are already known."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Metrics with a value."""
        return (_metric(family) for family in self._families if family.values)


def page(families: Iterable[Family]) -> bytes:
    """All of them, each with its help and type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(families))
    return generate_latest(registry)


def _metric(family: Family) -> Metric:
    if family.kind == "info":
        info = InfoMetricFamily(family.name, family.help, labels=family.labels[:1])
        for job, *words in family.values:
            info.add_metric([job], dict(zip(family.labels[1:], words, strict=True)))
        return info
    kind = GaugeMetricFamily if family.kind == "gauge" else CounterMetricFamily
    made = kind(family.name, family.help, labels=family.labels)
    for labels, value in family.values.items():
        made.add_metric(labels, value)
    return made
