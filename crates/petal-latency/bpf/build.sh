#!/bin/sh
# Compiles requests.bpf.c to an object: build.sh [OUT]. The object in the tree is from clang 14.
set -e
cd "$(dirname "$0")"
out=${1:-requests.bpf.o}
hash=$(sha256sum requests.bpf.c | cut -d ' ' -f 1)
${CLANG:-clang-14} -target bpf -mcpu=v2 -O2 -g -fdebug-compilation-dir=. -Wall -Wno-unused -Werror \
	-DSOURCE="\"$hash\"" -c requests.bpf.c -o "$out"
${LLVM_STRIP:-llvm-strip-14} -g "$out"
