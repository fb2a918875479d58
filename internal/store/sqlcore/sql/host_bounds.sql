UPDATE hosts SET bounds = $2 WHERE id = $1
