# SPDX-License-Identifier: Apache-2.0
# Steps of the install test; each must succeed. BUILD, SOURCE, EXAMPLES, WORK, GENERATOR, CC, CXX come from the command line.
function(step)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "${ARGN}\nended with ${status}\n${output}")
    endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
step("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/first")
# Moved, so that nothing can lean on the path of the installation.
file(RENAME "${WORK}/first" "${WORK}/prefix")
step("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${WORK}/build" -G "${GENERATOR}" "-DCMAKE_PREFIX_PATH=${WORK}/prefix"
    "-DCMAKE_C_COMPILER=${CC}" "-DCMAKE_CXX_COMPILER=${CXX}" -DCMAKE_BUILD_TYPE=Release)
step("${CMAKE_COMMAND}" --build "${WORK}/build")
step("${CMAKE_COMMAND}" -E env WHET_BUDGET_CPU=0 WHET_STORE=none "${WORK}/build/outside_c")
step("${CMAKE_COMMAND}" -E env WHET_BUDGET_CPU=0 WHET_STORE=none "${WORK}/build/outside_cxx")
step("${CMAKE_COMMAND}" -S "${EXAMPLES}/01_product" -B "${WORK}/product" -G "${GENERATOR}"
    "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DCMAKE_CXX_COMPILER=${CXX}" -DCMAKE_BUILD_TYPE=Release)
step("${CMAKE_COMMAND}" --build "${WORK}/product")
step("${CMAKE_COMMAND}" -E env WHET_BUDGET_CPU=0 WHET_STORE=none "${WORK}/product/product" 0.1)
if(EXISTS "${WORK}/prefix/bin/whet")
    step("${WORK}/prefix/bin/whet" --version)
    step("${CMAKE_COMMAND}" -E env WHET_STORE=none "${WORK}/prefix/bin/whet" run -- true)
endif()
file(REMOVE_RECURSE "${WORK}")
