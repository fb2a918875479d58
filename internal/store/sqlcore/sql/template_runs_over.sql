DELETE FROM template_runs WHERE class = $1 AND template = $2 AND host = $3 AND incarnation = $4
