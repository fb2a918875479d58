// Command protogen generates Go from one protocol file. The compiler and both plugins are Go
// modules pinned in tools/go.mod, so that nothing else has to be installed or downloaded.
//
// Usage, from the file's own directory: go run ./protogen -root DIR FILE
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("protogen: ")
	root := flag.String("root", ".", "`directory` that imports and results are relative to")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("name one .proto file")
	}
	if err := generate(*root, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func generate(root, file string) error {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{root}},
		SourceInfoMode: protocompile.SourceInfoStandard, // comments go along
	}
	compiled, err := compiler.Compile(context.Background(), file)
	if err != nil {
		return err
	}
	described := []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(compiled[0])}
	for _, plugin := range []struct{ name, parameter string }{
		{"protoc-gen-go", "paths=source_relative"},
		{"protoc-gen-connect-go", "paths=source_relative,package_suffix="}, // into the same package
	} {
		request := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{file}, Parameter: &plugin.parameter, ProtoFile: described}
		if err := run(root, plugin.name, request); err != nil {
			return fmt.Errorf("%s: %w", plugin.name, err)
		}
	}
	return nil
}

func run(root, plugin string, of *pluginpb.CodeGeneratorRequest) error {
	request, err := proto.Marshal(of)
	if err != nil {
		return err
	}
	c := exec.Command("go", "tool", plugin)
	c.Stdin, c.Stderr = bytes.NewReader(request), os.Stderr
	out, err := c.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", *response.Error)
	}
	for _, f := range response.File {
		path := filepath.Join(root, f.GetName())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
