package main
import "github.com/spf13/cobra"
func newDev() *cobra.Command { return &cobra.Command{Use:"dev"} }
func newDemo() *cobra.Command { return &cobra.Command{Use:"demo"} }
