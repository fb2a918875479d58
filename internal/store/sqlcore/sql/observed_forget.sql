DELETE FROM observed WHERE number <= $1
