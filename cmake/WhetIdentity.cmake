# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, which defines the C string NAME, from the text of the files named in FILES (whet_add_identity).
include("${FILES}")
set(text "")
foreach(file IN LISTS files)
    file(SHA256 "${file}" hash)
    file(RELATIVE_PATH path "${ROOT}" "${file}")
    string(APPEND text "${path} ${hash}\n")
endforeach()
string(SHA256 identity "${text}")
string(SUBSTRING ${identity} 0 16 identity)
file(WRITE "${OUTPUT}" "extern \"C\" {\nextern const char ${NAME}[17];\nconst char ${NAME}[17] = \"${identity}\";\n}\n")
