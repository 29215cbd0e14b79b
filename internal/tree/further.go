package tree

// ParseFurther reads a file that belongs to the document of r, whose source must have its text; before is the result of
// [Source.Add]. It returns nil if the file cannot be read, or is empty.
func ParseFurther(r *Reports, text string, before int) *Node {
	own := &Reports{Source: NewSource(r.Source.Name, text)}
	n := Parse(own, text)
	for _, e := range own.Errors {
		e.Line += before
		r.Add(e)
	}
	if len(own.Errors) > 0 || n == nil {
		return nil
	}
	return moved(n, before, map[*Node]*Node{})
}

// moved copies a node with its places some lines further down. What aliases share stays shared.
func moved(n *Node, lines int, known map[*Node]*Node) *Node {
	if known[n] != nil {
		return known[n]
	}
	out := *n
	known[n] = &out
	out.Pos.Line += lines
	out.Items, out.Fields = nil, nil
	for _, item := range n.Items {
		out.Items = append(out.Items, moved(item, lines, known))
	}
	for _, f := range n.Fields {
		at := Pos{f.Pos.Line + lines, f.Pos.Col}
		out.Fields = append(out.Fields, NodeField{f.Name, at, moved(f.Value, lines, known)})
	}
	return &out
}
