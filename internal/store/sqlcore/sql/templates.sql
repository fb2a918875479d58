SELECT known, document FROM templates ORDER BY class, template
