package supervisor

import (
	"slices"

	"github.com/writbot/writ/forge"
)

// Labels are writ's own, as a repository offers them; set-up makes them ahead.
func Labels() []forge.Label { return slices.Clone(labels) }
