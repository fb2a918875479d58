SELECT known FROM templates
