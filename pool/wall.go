package pool

import "time"

// Wall is the instant as people and the wire have it.
func (t Time) Wall() time.Time { return time.UnixMilli(int64(t)).UTC() }
