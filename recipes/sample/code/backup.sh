#!/bin/sh
# Copy a folder into a dated archive and keep only the newest few.
# usage: backup.sh SOURCE TARGET [KEEP]

set -eu

source_dir=${1:?say which folder to copy}
target_dir=${2:?say where the archives go}
keep=${3:-7}

if [ ! -d "$source_dir" ]; then
    echo "backup: $source_dir is not a folder" >&2
    exit 2
fi
mkdir -p "$target_dir"

name=$(basename "$source_dir")-$(date +%Y%m%d-%H%M%S).tar.gz
partial=$target_dir/.$name.partial

# Write under another name first: an archive that carries its final name is complete.
trap 'rm -f "$partial"' EXIT
tar -czf "$partial" -C "$(dirname "$source_dir")" "$(basename "$source_dir")"
mv "$partial" "$target_dir/$name"

# Names sort by date, so everything before the last $keep lines is old.
count=$(ls "$target_dir" | wc -l)
if [ "$count" -gt "$keep" ]; then
    ls "$target_dir" | sort | head -n $((count - keep)) | while read -r old; do
        echo "removing $old"
        rm -- "$target_dir/$old"
    done
fi
echo "wrote $target_dir/$name"
