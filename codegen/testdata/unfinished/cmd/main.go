package main

import widgets "example.com/not/there/yet"

// The marker +genclient is only named here.
func main() { widgets.Run() }
