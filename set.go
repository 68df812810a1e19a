package informer

import "sync"

// Member is an informer that is to become one of a group's; see [Group.Join].
type Member func(g *Group) (release func(), err error)

// SharedInto returns a member: the group's informer of resource, which
// [Group.Join] gets by [Shared], with the zero [Config], and puts into *to.
func SharedInto[T Object](to **Informer[T], resource Resource) Member {
	return func(g *Group) (release func(), err error) {
		*to, release, err = Shared(g, resource, Config[T]{})
		return release, err
	}
}

// Join makes all of members members of the group, or none: it returns a function that lets go of all of them, or the
// first error. It is what the generated Set of an API version is made by. To configure one of them, ask for it by
// [Shared] before.
func (g *Group) Join(members ...Member) (release func(), err error) {
	var releases []func()
	release = func() {
		for _, r := range releases {
			r()
		}
	}
	for _, m := range members {
		r, err := m(g)
		if err != nil {
			release()
			return nil, err
		}
		releases = append(releases, r)
	}
	return sync.OnceFunc(release), nil
}
