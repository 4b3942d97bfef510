"""`mpmon export`: what mpmon finds about a job, as Prometheus metrics.

`samples` makes them from observations, as a pure function; `page` writes them in the Prometheus format and is the only module
that imports prometheus_client; `outlets` puts that where Prometheus or node_exporter finds it; `kit/` has template files:
alerts, a dashboard, a systemd unit, a Slurm batch script.

A single machine of a multi-machine job cannot know whether the job hangs, so it exports no verdict and no hang;
an mpmon that watches the whole job does.
"""
