# fish completion of pallasc; made by `make docs`.
complete -c pallasc -n __fish_use_subcommand -a compile -d 'compile a graph or a kernel: what it does without a command'
complete -c pallasc -n __fish_use_subcommand -a sweep -d 'judge many configurations of a graph'
complete -c pallasc -n __fish_use_subcommand -a explain -d 'what the code of a message means, and what to do'
complete -c pallasc -n __fish_use_subcommand -a export -d 'trace a Helion kernel and write its graph'
complete -c pallasc -n __fish_use_subcommand -a grad -d 'derive the backward pass of a graph, as a graph'
complete -c pallasc -n __fish_use_subcommand -a run -d 'run a kernel module, on a TPU or simulated'
complete -c pallasc -n __fish_use_subcommand -a check -d 'compile a graph, simulate the kernel, compare with the reference'
complete -c pallasc -n __fish_use_subcommand -a aot -d 'compile a kernel module for a chip, with no TPU present'
complete -c pallasc -n __fish_use_subcommand -a execute -d 'execute the text of a kernel in NumPy'
complete -c pallasc -n __fish_use_subcommand -a profile -d 'execute the compiler\'s schedule of a kernel: cycles, slots, bytes, waits'
complete -c pallasc -n __fish_use_subcommand -a tune -d 'find the fastest configuration of a graph, with no TPU or on one'
complete -c pallasc -n __fish_use_subcommand -a reduce -d 'make a graph that shows a failure small'
complete -c pallasc -n __fish_use_subcommand -a on-tpu -d 'run the rows of docs/results.md on a TPU: numbers, times, chip data from them'
complete -c pallasc -n __fish_use_subcommand -a lint -d 'look for what an emitted module must not hold'
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l adapt
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l backward
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l color -x -a 'auto always never'
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l config
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l cotangents
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l debug-print
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l diagnostics -x -a 'text json'
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l emit -x -a 'python json plan kernel operations dot report html none'
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l explain
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l gather
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l gradients
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l help
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l mesh
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l named-scopes
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l nondiff
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l passes -x -a 'batch random int64 const_fold whiles jagged branches summed_parts decompose one_hot float16 bounds whole_rows cse roll id_masks scale_in_q scale_after_max trim dce loop_types block_constraints row_split columns inloop_loads orient pre_broadcast'
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l print-after -x -a 'batch random int64 const_fold whiles jagged branches summed_parts decompose one_hot float16 bounds whole_rows cse roll id_masks scale_in_q scale_after_max trim dce loop_types block_constraints row_split columns inloop_loads orient pre_broadcast'
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l print-after-all
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l print-before -x -a 'batch random int64 const_fold whiles jagged branches summed_parts decompose one_hot float16 bounds whole_rows cse roll id_masks scale_in_q scale_after_max trim dce loop_types block_constraints row_split columns inloop_loads orient pre_broadcast'
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l print-passes
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l print-rewrites
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l print-target
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l print-targets
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l residuals
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l returns
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l rewrites -x -a 'strips row_sums held lane_sums alike masks peel split skew pairs points ahead drive blocks turn_once unmasked narrow chunks pieces columns float16 few_rows repeats parts exact tidy walk runs grid_loop pipelined lines grid ring'
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l ring
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l sample
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l scatter
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l seed
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l set
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l shard
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l size
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l sizes
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l space
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l sweep
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l table
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l target -x -a 'v4 v5e v5p v6e v7x'
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l top
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l verify-each
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l version
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l vmem
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -l vmem-margin
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -s j
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -s o
complete -c pallasc -n 'not __fish_seen_subcommand_from export grad run check aot execute profile tune reduce on-tpu lint' -s v
complete -c pallasc -n '__fish_seen_subcommand_from export' -l args
complete -c pallasc -n '__fish_seen_subcommand_from export' -l config
complete -c pallasc -n '__fish_seen_subcommand_from export' -l help
complete -c pallasc -n '__fish_seen_subcommand_from export' -l item
complete -c pallasc -n '__fish_seen_subcommand_from export' -l manifest
complete -c pallasc -n '__fish_seen_subcommand_from export' -l mesh
complete -c pallasc -n '__fish_seen_subcommand_from export' -l name
complete -c pallasc -n '__fish_seen_subcommand_from export' -l named-sizes
complete -c pallasc -n '__fish_seen_subcommand_from export' -l no-named-sizes
complete -c pallasc -n '__fish_seen_subcommand_from export' -l output
complete -c pallasc -n '__fish_seen_subcommand_from export' -l verbose
complete -c pallasc -n '__fish_seen_subcommand_from export' -s h
complete -c pallasc -n '__fish_seen_subcommand_from export' -s o
complete -c pallasc -n '__fish_seen_subcommand_from export' -s v
complete -c pallasc -n '__fish_seen_subcommand_from grad' -l explain
complete -c pallasc -n '__fish_seen_subcommand_from grad' -l forward
complete -c pallasc -n '__fish_seen_subcommand_from grad' -l help
complete -c pallasc -n '__fish_seen_subcommand_from grad' -l residual
complete -c pallasc -n '__fish_seen_subcommand_from grad' -l size
complete -c pallasc -n '__fish_seen_subcommand_from grad' -l target
complete -c pallasc -n '__fish_seen_subcommand_from grad' -l wrt
complete -c pallasc -n '__fish_seen_subcommand_from grad' -s h
complete -c pallasc -n '__fish_seen_subcommand_from grad' -s o
complete -c pallasc -n '__fish_seen_subcommand_from grad' -s t
complete -c pallasc -n '__fish_seen_subcommand_from run' -l graph
complete -c pallasc -n '__fish_seen_subcommand_from run' -l help
complete -c pallasc -n '__fish_seen_subcommand_from run' -l interpret
complete -c pallasc -n '__fish_seen_subcommand_from run' -l scalar
complete -c pallasc -n '__fish_seen_subcommand_from run' -l seed
complete -c pallasc -n '__fish_seen_subcommand_from run' -l size
complete -c pallasc -n '__fish_seen_subcommand_from run' -l timeout
complete -c pallasc -n '__fish_seen_subcommand_from run' -s h
complete -c pallasc -n '__fish_seen_subcommand_from check' -l adapt
complete -c pallasc -n '__fish_seen_subcommand_from check' -l adversarial
complete -c pallasc -n '__fish_seen_subcommand_from check' -l config
complete -c pallasc -n '__fish_seen_subcommand_from check' -l cores
complete -c pallasc -n '__fish_seen_subcommand_from check' -l gather
complete -c pallasc -n '__fish_seen_subcommand_from check' -l help
complete -c pallasc -n '__fish_seen_subcommand_from check' -l interpret
complete -c pallasc -n '__fish_seen_subcommand_from check' -l mesh
complete -c pallasc -n '__fish_seen_subcommand_from check' -l no-race
complete -c pallasc -n '__fish_seen_subcommand_from check' -l points
complete -c pallasc -n '__fish_seen_subcommand_from check' -l race
complete -c pallasc -n '__fish_seen_subcommand_from check' -l ring
complete -c pallasc -n '__fish_seen_subcommand_from check' -l scalar
complete -c pallasc -n '__fish_seen_subcommand_from check' -l scatter
complete -c pallasc -n '__fish_seen_subcommand_from check' -l seed
complete -c pallasc -n '__fish_seen_subcommand_from check' -l set
complete -c pallasc -n '__fish_seen_subcommand_from check' -l shard
complete -c pallasc -n '__fish_seen_subcommand_from check' -l size
complete -c pallasc -n '__fish_seen_subcommand_from check' -l target
complete -c pallasc -n '__fish_seen_subcommand_from check' -l timeout
complete -c pallasc -n '__fish_seen_subcommand_from check' -l vmem
complete -c pallasc -n '__fish_seen_subcommand_from check' -l vmem-margin
complete -c pallasc -n '__fish_seen_subcommand_from check' -s h
complete -c pallasc -n '__fish_seen_subcommand_from check' -s s
complete -c pallasc -n '__fish_seen_subcommand_from aot' -l help
complete -c pallasc -n '__fish_seen_subcommand_from aot' -l json
complete -c pallasc -n '__fish_seen_subcommand_from aot' -l memory
complete -c pallasc -n '__fish_seen_subcommand_from aot' -l no-cache
complete -c pallasc -n '__fish_seen_subcommand_from aot' -l size
complete -c pallasc -n '__fish_seen_subcommand_from aot' -l target
complete -c pallasc -n '__fish_seen_subcommand_from aot' -l timeout
complete -c pallasc -n '__fish_seen_subcommand_from aot' -l topology
complete -c pallasc -n '__fish_seen_subcommand_from aot' -l verbose
complete -c pallasc -n '__fish_seen_subcommand_from aot' -s h
complete -c pallasc -n '__fish_seen_subcommand_from aot' -s t
complete -c pallasc -n '__fish_seen_subcommand_from aot' -s v
complete -c pallasc -n '__fish_seen_subcommand_from execute' -l arg
complete -c pallasc -n '__fish_seen_subcommand_from execute' -l emit
complete -c pallasc -n '__fish_seen_subcommand_from execute' -l help
complete -c pallasc -n '__fish_seen_subcommand_from execute' -l seed
complete -c pallasc -n '__fish_seen_subcommand_from execute' -s h
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l arg
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l help
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l json
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l memory
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l no-cache
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l numbers
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l page
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l self-test
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l simulate
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l size
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l statements
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l target
complete -c pallasc -n '__fish_seen_subcommand_from profile' -l timeout
complete -c pallasc -n '__fish_seen_subcommand_from profile' -s h
complete -c pallasc -n '__fish_seen_subcommand_from profile' -s t
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l arg
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l compiles
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l config
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l help
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l jobs
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l output
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l page
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l profile
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l rows
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l set
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l size
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l space
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l target
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l timeout
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l vmem
complete -c pallasc -n '__fish_seen_subcommand_from tune' -l vmem-margin
complete -c pallasc -n '__fish_seen_subcommand_from tune' -s h
complete -c pallasc -n '__fish_seen_subcommand_from tune' -s j
complete -c pallasc -n '__fish_seen_subcommand_from tune' -s o
complete -c pallasc -n '__fish_seen_subcommand_from tune' -s s
complete -c pallasc -n '__fish_seen_subcommand_from reduce' -l help
complete -c pallasc -n '__fish_seen_subcommand_from reduce' -l if
complete -c pallasc -n '__fish_seen_subcommand_from reduce' -l output
complete -c pallasc -n '__fish_seen_subcommand_from reduce' -l seconds
complete -c pallasc -n '__fish_seen_subcommand_from reduce' -l timeout
complete -c pallasc -n '__fish_seen_subcommand_from reduce' -s h
complete -c pallasc -n '__fish_seen_subcommand_from reduce' -s o
complete -c pallasc -n '__fish_seen_subcommand_from on-tpu' -l again
complete -c pallasc -n '__fish_seen_subcommand_from on-tpu' -l calibrate
complete -c pallasc -n '__fish_seen_subcommand_from on-tpu' -l coverage
complete -c pallasc -n '__fish_seen_subcommand_from on-tpu' -l help
complete -c pallasc -n '__fish_seen_subcommand_from on-tpu' -l list
complete -c pallasc -n '__fish_seen_subcommand_from on-tpu' -l output
complete -c pallasc -n '__fish_seen_subcommand_from on-tpu' -l row
complete -c pallasc -n '__fish_seen_subcommand_from on-tpu' -l target
complete -c pallasc -n '__fish_seen_subcommand_from on-tpu' -s h
complete -c pallasc -n '__fish_seen_subcommand_from on-tpu' -s o
complete -c pallasc -n '__fish_seen_subcommand_from lint' -l help
complete -c pallasc -n '__fish_seen_subcommand_from lint' -s h
