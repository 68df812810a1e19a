package main

// theirs is the name of controller-runtime's own cache.
const theirs = "controller-runtime"

// cache is a cache that programs run with.
type cache struct {
	name    string
	options string // the fields of crcache.Options, in Go
}

func (c cache) String() string { return c.name }

// caches are all of them. separate and Compact apply also to programs that set cache.Options.NewInformer.
var caches = []cache{
	{name: theirs},
	{name: "crcache"},
	{"separate", "Layout: informer.LayoutSeparate, IgnoreNewInformer: true"},
	{"Compact", "Layout: informer.LayoutCompact, IgnoreNewInformer: true"},
}
