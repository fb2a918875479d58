DELETE FROM template_runs WHERE class = $1 AND template = $2
