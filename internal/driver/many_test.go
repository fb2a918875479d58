package driver_test

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
)

// Sandboxes that boot at the same moment share nothing: no pipe of one is kept open by another
// that was forked in between, and none takes another's exit status.
func TestManyAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		var all errgroup.Group
		for i := range 24 {
			all.Go(func() error {
				p, err := r.Prepare(t.Context(), r.shell(fmt.Sprint("s", i), fmt.Sprint("exit ", i)))
				if err != nil {
					return err
				}
				if err := p.Go(); err != nil {
					return err
				}
				if exit := p.Wait(); exit.Code != i || exit.Err != nil {
					return fmt.Errorf("sandbox %d: %v", i, exit)
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			t.Error(err)
		}
	})
}
