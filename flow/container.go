package flow

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/tree"
)

// Container is a container that docker or podman makes for each attempt.
type Container struct {
	Off     bool       // the process runs on the machine of the worker, whatever the defaults are
	Image   tree.Value // a text
	Args    tree.Value // a list of texts: the arguments of the image's own program
	Volumes tree.Value // a list of texts, as source:target or source:target:options
	User    tree.Value // a text
	Network tree.Value // a text
	// Workspace is the folder that the container sees as /workspace. Default: the flow's.
	Workspace   tree.Value
	NoWorkspace bool
	Pull        string     // missing, the default, always or never
	Init        *bool      // a small init is the first process; nil if it is
	Options     tree.Value // a list of texts: further arguments of docker run

	pos tree.Pos
}

var containerKeys = []string{
	"image", "args", "volumes", "user", "network", "workspace", "pull", "init", "options",
}

var pulls = []string{"missing", "always", "never"}

// containerIn reads the container of a process: an image alone, a mapping, or false for none.
func containerIn(p *parsing, n *tree.Node) *Container {
	switch {
	case n == nil || n.Kind == tree.Null:
		return nil
	case n.Kind == tree.Bool && n.Any() == false:
		return &Container{Off: true}
	case n.Kind == tree.Text:
		return &Container{Image: imageIn(p, n), pos: n.Pos}
	case n.Kind != tree.Mapping:
		p.Fail(n.Pos, "write container: IMAGE", "container is an image, a mapping or false, not %s", tree.Describe(n))
		return nil
	}
	p.object(n, "container", containerKeys)
	c := &Container{
		Image:   imageIn(p, n.Get("image")),
		Args:    listIn(p, n.Get("args"), "args"),
		Volumes: listIn(p, n.Get("volumes"), "volumes"),
		User:    p.textValue(n.Get("user"), "user"),
		Network: p.textValue(n.Get("network"), "network"),
		Pull:    p.text(n.Get("pull"), "pull"),
		Options: listIn(p, n.Get("options"), "options"),
		pos:     n.Pos,
	}
	if c.Pull != "" && !contains(pulls, c.Pull) {
		p.Fail(n.Get("pull").Pos, "", "pull is %s, not %q", orList(pulls), tree.Shorten(c.Pull))
	}
	if w := n.Get("workspace"); w != nil && w.Kind == tree.Bool && w.Any() == false {
		c.NoWorkspace = true
	} else {
		c.Workspace = p.textValue(w, "workspace")
	}
	if i := n.Get("init"); i != nil && i.Kind != tree.Null {
		init := p.truth(i, "init")
		c.Init = &init
	}
	checkVolumes(p, n.Get("volumes"))
	return c
}

// imageIn reads the image of a container. One that begins with a dash would be taken for an option.
func imageIn(p *parsing, n *tree.Node) tree.Value {
	if n != nil && n.Kind == tree.Text && (n.Text == "" || strings.HasPrefix(n.Text, "-") ||
		!expr.HasExpression(n.Text) && strings.ContainsAny(n.Text, " \t\n")) {
		p.Fail(n.Pos, "write container: alpine:3.22", "%q is not the name of an image", tree.Shorten(n.Text))
	}
	return p.textValue(n, "image")
}

// checkVolumes checks the mounts: source:target or source:target:options.
func checkVolumes(p *parsing, n *tree.Node) {
	if n == nil || n.Kind != tree.List {
		return
	}
	for _, item := range n.Items {
		if item.Kind != tree.Text || expr.HasExpression(item.Text) {
			continue
		}
		const hint = "write SOURCE:TARGET or SOURCE:TARGET:ro"
		parts := strings.Split(withoutDrive(item.Text), ":")
		switch {
		case len(parts) < 2 || len(parts) > 3 || parts[0] == "":
			p.Fail(item.Pos, hint, "%q is not a volume", tree.Shorten(item.Text))
		case !path.IsAbs(parts[1]):
			p.Fail(item.Pos, hint, "the target of a volume is an absolute path, not %q", tree.Shorten(parts[1]))
		case parts[1] == ownFolder || strings.HasPrefix(parts[1], ownFolder+"/"):
			p.Fail(item.Pos, "choose another target", "%s is where Pawl has its own files in a container", ownFolder)
		}
	}
}

// ownFolder has $PAWL_OUTPUT in a container.
const ownFolder = "/pawl"

// drive is the beginning of a volume on Windows. A volume of the container program may have a name of one letter.
var drive = regexp.MustCompile(`^[A-Za-z]:(\\|/.*:/)`)

// withoutDrive returns a volume without the letter of a Windows drive at its beginning.
func withoutDrive(volume string) string {
	if drive.MatchString(volume) {
		return volume[2:]
	}
	return volume
}

func encodeContainer(c *Container) tree.Value {
	switch {
	case c == nil:
		return tree.Value{}
	case c.Off:
		return V(false)
	}
	out := object{}
	out.put("image", c.Image)
	out.put("args", c.Args)
	out.put("volumes", c.Volumes)
	out.put("user", c.User)
	out.put("network", c.Network)
	out.put("workspace", c.Workspace)
	if c.NoWorkspace {
		out.put("workspace", V(false))
	}
	out.text("pull", c.Pull)
	if c.Init != nil {
		out.put("init", V(*c.Init))
	}
	out.put("options", c.Options)
	return out.value()
}

// container adds a container to the payload of a process.
func (b *builder) container(o *expr.Object, c *Container, vars expr.Vars) {
	if c == nil || c.Off {
		return
	}
	if c.Image.IsZero() {
		b.stepFail(c.pos, "add image: IMAGE", "the container has no image")
	}
	in := b.compiler.Object(vars)
	in.Text("image", c.Image)
	in.Text("args", c.Args)
	in.Text("volumes", c.Volumes)
	in.Text("user", c.User)
	in.Text("network", c.Network)
	in.Text("workspace", c.Workspace)
	if c.NoWorkspace {
		in.Data("workspace", V(""))
	}
	if c.Pull != "" {
		in.Data("pull", V(c.Pull))
	}
	if c.Init != nil {
		in.Data("init", V(*c.Init))
	}
	in.Text("options", c.Options)
	var inherited []string
	for name, value := range b.doc.Env {
		if value == nil {
			inherited = append(inherited, name)
		}
	}
	if slices.Sort(inherited); len(inherited) > 0 {
		in.Data("inherit", V(inherited))
	}
	o.Add("container", in.Done())
}

// overContainer combines a container with that of the settings, field by field.
func overContainer(base, over *Container) *Container {
	switch {
	case over == nil:
		return base
	case base == nil || base.Off || over.Off:
		return over
	}
	out := *over
	for _, f := range []struct{ to, from *tree.Value }{
		{&out.Image, &base.Image},
		{&out.Args, &base.Args},
		{&out.Volumes, &base.Volumes},
		{&out.User, &base.User},
		{&out.Network, &base.Network},
		{&out.Options, &base.Options},
	} {
		if f.to.IsZero() {
			*f.to = *f.from
		}
	}
	if out.Workspace.IsZero() && !out.NoWorkspace {
		out.Workspace, out.NoWorkspace = base.Workspace, base.NoWorkspace
	}
	if out.Pull == "" {
		out.Pull = base.Pull
	}
	if out.Init == nil {
		out.Init = base.Init
	}
	return &out
}
