"""`mpmon export`: what mpmon says of a job, as numbers for Prometheus.

`samples` makes them of observations, purely; `page` writes them in the format of Prometheus and is the only module that
knows prometheus_client; `outlets` puts that where Prometheus or node_exporter finds it; `kit/` has files for a start: alerts,
a dashboard, a unit of systemd, a batch script of Slurm.

Of a job that runs on other machines too, one machine does not know whether it hangs, so it exports no verdict and no hang;
whoever watches all of the job does.
"""
