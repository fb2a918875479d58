package up

import (
	"context"
	"errors"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/postgres"
	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
	"github.com/plimsoll-project/plimsoll/internal/store/sqlite"
)

// store is a store and its writer.
type store interface {
	control.Store
	Run(ctx context.Context) error
}

// How a store that is out of reach is tried, and how often that is spoken of.
const (
	tryStoreEvery = time.Second
	sayStoreEvery = 30 * time.Second
)

// prepareStore opens the embedded store: what is wrong with a file of this machine does not
// come right by itself. Of PostgreSQL it reads only where it should be.
func (u *Up) prepareStore(ctx context.Context) (err error) {
	path, embedded := u.File.Local.SQLitePath()
	if !embedded {
		url, _ := u.File.Local.PostgresURL()
		return postgres.Check(url)
	}
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	u.store = s
	close(u.opened)
	return nil
}

// keepStore opens the store, if it is not yet, and is its writer.
func (u *Up) keepStore(ctx, late context.Context) error {
	if u.store == nil {
		if err := u.reachStore(ctx); err != nil || u.store == nil {
			return err // nothing to write to: we were stopped before it was there
		}
	}
	return u.store.Run(late)
}

// reachStore leaves the store nil only when ctx ended or the store will never do. It tries until PostgreSQL can be worked on: it may be starting, or its schema may
// be brought up to date at this moment. Meanwhile the API says that it waits.
func (u *Up) reachStore(ctx context.Context) error {
	url, _ := u.File.Local.PostgresURL()
	var said time.Time
	var last string
	for {
		s, err := postgres.Open(ctx, url, postgres.Options{Log: u.Log})
		switch {
		case ctx.Err() != nil:
			if err == nil {
				s.Close()
			}
			return nil
		case err == nil:
			if last != "" {
				u.Log.Info("the store is there")
			}
			u.store = s
			close(u.opened)
			return nil
		case errors.Is(err, sqlcore.ErrNewer):
			return err
		case err.Error() != last || time.Since(said) >= sayStoreEvery:
			u.Log.Warn("the store cannot be worked on yet; creates are answered 503 unavailable until it can", "err", err)
			said, last = time.Now(), err.Error()
		}
		wait(ctx, tryStoreEvery)
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (u *Up) awaitStore(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-u.opened:
		return nil
	}
}

// persist does what needs the store, again and again while that is PostgreSQL and does not
// answer. The embedded store's word is final.
func (u *Up) persist(ctx context.Context, what string, do func(context.Context) error) error {
	_, embedded := u.File.Local.SQLitePath()
	for {
		err := do(ctx)
		if err == nil || embedded || ctx.Err() != nil || errors.As(err, new(permanent)) {
			return err
		}
		u.Log.Warn(what+" is tried again", "err", err)
		wait(ctx, tryStoreEvery)
	}
}

// permanent is an error that trying again does not change.
type permanent struct{ error }
