DELETE FROM templates WHERE class = $1 AND template = $2
