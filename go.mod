module github.com/plimsoll-project/plimsoll

go 1.26.0
