package sqlite

import (
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
)

func BenchmarkLearn(b *testing.B) { storetest.BenchLearn(b, fresh) }
