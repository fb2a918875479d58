package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Set changes one setting of the fleet's document, as if its file had said so. The path names
// what a section's list holds by its name, and a share by whose it is:
//
//	ceiling=200  quotas.acme=12  pools.ci.cap=40  pools.ci.shares.bot.max=8
//	classes.small.max_memory=2GiB  consumers.ci.tenants=acme,beta
//
// A quota that is not there yet is made. After an error, which names the path, nothing has
// changed; whether the whole still holds together ParseFleet says of its Document.
func (f *Fleet) Set(path, said string) error {
	if tenant, ok := strings.CutPrefix(path, "quotas."); ok {
		return f.setQuota(tenant, path, said)
	}
	p, err := f.setting(path)
	if err != nil {
		return err
	}
	return assign(path, said, p)
}

func assign(path, said string, p reflect.Value) error {
	r, fresh := newReport("set"), reflect.New(p.Elem().Type())
	r.said(path, said, fresh)
	if len(r.faults) > 0 {
		return fmt.Errorf("%s: %s", path, r.faults[0].Message)
	}
	p.Elem().Set(fresh.Elem())
	return nil
}

func (f *Fleet) setQuota(tenant, path, said string) error {
	q := Quota{Tenant: tenant}
	if err := assign(path, said, reflect.ValueOf(&q.Limit)); err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(f.Quotas, tenant, func(q Quota, name string) int { return strings.Compare(q.Tenant, name) })
	if found {
		f.Quotas[i] = q
		return nil
	}
	f.Quotas = slices.Insert(slices.Clone(f.Quotas), i, q)
	return nil
}

// setting finds what a path names.
func (f *Fleet) setting(path string) (reflect.Value, error) {
	section, rest, _ := strings.Cut(path, ".")
	switch section {
	case "pools":
		i, key := named(f.Pools, rest, func(p *Pool) string { return p.Name })
		if i < 0 {
			return none(path, "pool", f.Pools, func(p *Pool) string { return p.Name })
		}
		return f.Pools[i].setting(path, key)
	case "classes":
		i, key := named(f.Classes, rest, func(c *Class) string { return c.Name })
		if i < 0 {
			return none(path, "class", f.Classes, func(c *Class) string { return c.Name })
		}
		return fieldOf(path, key, &f.Classes[i])
	case "consumers":
		i, key := named(f.Consumers, rest, func(c *Consumer) string { return c.Name })
		if i < 0 {
			return none(path, "consumer", f.Consumers, func(c *Consumer) string { return c.Name })
		}
		return fieldOf(path, key, &f.Consumers[i])
	}
	return fieldOf(path, path, f)
}

func (p *Pool) setting(path, key string) (reflect.Value, error) {
	rest, ok := strings.CutPrefix(key, "shares.")
	if !ok {
		return fieldOf(path, key, p)
	}
	i, key := named(p.Shares, rest, whose)
	if i < 0 {
		return none(path, "share", p.Shares, whose)
	}
	return fieldOf(path, key, &p.Shares[i])
}

// whose is what a path calls a share by.
func whose(s *Share) string {
	if s.Consumer != "" {
		return s.Consumer
	}
	return fmt.Sprint(s.Priority)
}

// named finds the entry that a path goes on with, and what it goes on with then. Names may have
// dots in them: the longest that stands there is meant.
func named[T any](list []T, path string, name func(*T) string) (at int, rest string) {
	at, longest := -1, -1
	for i := range list {
		n := name(&list[i])
		if after, ok := strings.CutPrefix(path, n+"."); ok && len(n) > longest {
			at, longest, rest = i, len(n), after
		}
	}
	return at, rest
}

func none[T any](path, what string, list []T, name func(*T) string) (reflect.Value, error) {
	var names []string
	for i := range list {
		names = append(names, name(&list[i]))
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return reflect.Value{}, fmt.Errorf("%s: names no %s and a setting of it; there is %s", path, what, strings.Join(names, ", "))
}

// fieldOf finds one setting of a section by its key.
func fieldOf[T any](path, key string, section *T) (reflect.Value, error) {
	fields := fieldsOf(reflect.TypeFor[T]())
	maps.DeleteFunc(fields, func(_ string, f reflect.StructField) bool { return !settable(reflect.TypeFor[T](), f) })
	if f, known := fields[key]; known {
		return reflect.ValueOf(section).Elem().FieldByIndex(f.Index).Addr(), nil
	}
	return reflect.Value{}, fmt.Errorf("%s: %q is no setting of it; %s", path, key, suggestion(key, slices.Sorted(maps.Keys(fields))))
}

// settable says whether one word can change a setting: what a section is called by stays, tokens
// have a command of their own, and a list of sections is changed entry by entry.
func settable(section reflect.Type, f reflect.StructField) bool {
	switch {
	case f.Name == "Name" || f.Name == "Tokens":
		return false
	case section == reflect.TypeFor[Share]() && (f.Name == "Consumer" || f.Name == "Priority"):
		return false
	case f.Type.Kind() == reflect.Slice:
		return f.Type.Elem().Kind() != reflect.Struct
	}
	return true
}
