// Package bpf holds the BPF programs, compiled, and the Go side of their maps,
// settings and records. It has no logic. The C sources are beside it; the
// headers under headers/bpf are libbpf's (LGPL-2.1 OR BSD-2-Clause), so that
// generation gives the same bytes on every distribution.
package bpf

//go:generate go tool bpf2go -go-package bpf -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -type head -type rec_task -type rec_switch -type rec_wake -type rec_wake_irq -type rec_fork -type rec_exec -type rec_argv -type rec_comm -type rec_exit -type rec_netns -type rec_sys -type rec_work -type rec_timer -type rec_block -type rec_bio -type rec_lock -type rec_point -type rec_sample -type rec_irq_name -type rec_message -type rec_user -type context -type item -type sock_item -type cpu_count -type rec_type -type arg_kind -type item_kind -type ctx_kind -type ctx_what -type point_id Trace trace.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -Iheaders -ffile-prefix-map=.=. -fdebug-compilation-dir=.
