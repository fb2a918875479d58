SELECT count(*) FROM admissions WHERE host <> '' AND host = $1
