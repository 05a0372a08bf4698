package secretredactionprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/xpdata/entity"
)

// resource cleans the attributes of a resource and what names the entities in them. The names of attributes get the masks
// that the attributes themselves get.
func (w *walk) resource(resource pcommon.Resource) {
	w.attributes(resource.Attributes())
	for _, reference := range entity.ResourceEntityRefs(resource).All() {
		reference.SetSchemaUrl(w.name(reference.SchemaUrl()))
		reference.SetType(w.name(reference.Type()))
		w.keyNames(reference.IdKeys())
		w.keyNames(reference.DescriptionKeys())
	}
}

func (w *walk) keyNames(names pcommon.StringSlice) {
	for i, name := range names.All() {
		if _, clean := w.key(name); clean != name {
			names.SetAt(i, clean)
		}
	}
}
