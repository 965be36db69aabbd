# bash completion of pallasc; made by `make docs`.
_pallasc() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words files
	if [ "$word" = = ]; then
		word=
	elif [ "$before" = = ]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	case $before in
	--emit) words="python json plan kernel operations dot report html none" ;;
	--target) words="v4 v5e v5p v6e v7x" ;;
	--diagnostics) words="text json" ;;
	--color) words="auto always never" ;;
	--passes) words="batch random int64 const_fold whiles jagged branches summed_parts decompose one_hot float16 bounds whole_rows cse roll id_masks scale_in_q scale_after_max trim dce loop_types block_constraints row_split columns inloop_loads orient pre_broadcast" ;;
	--print-before) words="batch random int64 const_fold whiles jagged branches summed_parts decompose one_hot float16 bounds whole_rows cse roll id_masks scale_in_q scale_after_max trim dce loop_types block_constraints row_split columns inloop_loads orient pre_broadcast" ;;
	--print-after) words="batch random int64 const_fold whiles jagged branches summed_parts decompose one_hot float16 bounds whole_rows cse roll id_masks scale_in_q scale_after_max trim dce loop_types block_constraints row_split columns inloop_loads orient pre_broadcast" ;;
	--rewrites) words="strips row_sums held lane_sums alike masks peel split skew pairs points ahead drive blocks turn_once unmasked narrow chunks pieces columns float16 few_rows repeats parts exact tidy walk runs grid_loop pipelined lines grid ring" ;;
	*)
		case $word in
		-*)
			case ${COMP_WORDS[1]} in
			tune) words="--arg --compiles --config --help --jobs --output --page --profile --rows --set --size --space --target --timeout --vmem --vmem-margin -h -j -o -s" ;;
			run) words="--graph --help --interpret --scalar --seed --size --timeout -h" ;;
			reduce) words="--help --if --output --seconds --timeout -h -o" ;;
			profile) words="--arg --help --json --memory --no-cache --numbers --page --self-test --simulate --size --statements --target --timeout -h -t" ;;
			on-tpu) words="--again --calibrate --coverage --help --list --output --row --target -h -o" ;;
			lint) words="--help -h" ;;
			grad) words="--explain --forward --help --residual --size --target --wrt -h -o -t" ;;
			export) words="--args --config --help --item --manifest --mesh --name --named-sizes --no-named-sizes --output --verbose -h -o -v" ;;
			execute) words="--arg --emit --help --seed -h" ;;
			check) words="--adapt --adversarial --config --cores --gather --help --interpret --mesh --no-race --points --race --ring --scalar --scatter --seed --set --shard --size --target --timeout --vmem --vmem-margin -h -s" ;;
			aot) words="--help --json --memory --no-cache --size --target --timeout --topology --verbose -h -t -v" ;;
			*) words="--adapt --backward --color --config --cotangents --debug-print --diagnostics --emit --explain --gather --gradients --help --mesh --named-scopes --nondiff --passes --print-after --print-after-all --print-before --print-passes --print-rewrites --print-target --print-targets --residuals --returns --rewrites --ring --sample --scatter --seed --set --shard --size --sizes --space --sweep --table --target --top --verify-each --version --vmem --vmem-margin -j -o -v" ;;
			esac
			;;
		*)
			files=yes
			[ "$COMP_CWORD" -gt 1 ] || words="compile sweep explain export grad run check aot execute profile tune reduce on-tpu lint"
			;;
		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	[ -z "$files" ] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _pallasc pallasc
