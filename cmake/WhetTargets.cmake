# SPDX-License-Identifier: Apache-2.0
# Functions that declare Whet's targets: one place for warnings, visibility, sanitizers, output folders and RPATHs.
#
# The build tree has the layout of the install prefix, so relative look-ups work in both:
#   bin/whet    lib/libwhet.so, libwhet_blas.so    lib/whet/ everything that only Whet itself opens or starts
include_guard(GLOBAL)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT DEFINED CMAKE_INSTALL_LIBDIR)
    set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "Folder of libraries below the prefix")
endif()
include(GNUInstallDirs)
find_package(Threads REQUIRED)

set(WHET_BIN_DIR "${PROJECT_BINARY_DIR}/bin")
set(WHET_LIB_DIR "${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}")
set(WHET_PRIVATE_LIB_DIR "${WHET_LIB_DIR}/whet")

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(WHET_CCACHE ccache)
    if(WHET_CCACHE)
        set(CMAKE_C_COMPILER_LAUNCHER "${WHET_CCACHE}")
        set(CMAKE_CXX_COMPILER_LAUNCHER "${WHET_CCACHE}")
    endif()
endif()

find_program(WHET_LLD NAMES ld.lld HINTS /usr/lib/llvm-22/bin)

# Flags that every target of the tree shares. No -march: machine code above baseline x86-64 comes from functions with
# target attributes and from the code generator. Contraction is off because the numerics say where a multiply and an
# add are fused. GCC 12 is wrong about std::optional (maybe-uninitialized), std::string (restrict) and its own AVX-512
# intrinsics (uninitialized).
add_library(whet_flags INTERFACE)
target_compile_options(whet_flags INTERFACE
    -Wall -Wextra -Wvla -Wno-missing-field-initializers
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:WHET_IS_TEST>>>:-Wshadow>  # GoogleTest's macros shadow
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-restrict;-Wno-uninitialized>"
    -ffp-contract=off -fno-math-errno -ffunction-sections -fdata-sections
    $<$<BOOL:${WHET_WERROR}>:-Werror>)
target_link_options(whet_flags INTERFACE -Wl,--gc-sections)
if(WHET_LLD)
    get_filename_component(whet_lld_dir "${WHET_LLD}" DIRECTORY)
    target_link_options(whet_flags INTERFACE -fuse-ld=lld -B${whet_lld_dir})
endif()
if(WHET_SANITIZE)
    target_compile_options(whet_flags INTERFACE -fsanitize=${WHET_SANITIZE} -fno-omit-frame-pointer)
    if(WHET_SANITIZE STREQUAL thread)
        target_compile_options(whet_flags INTERFACE -Wno-tsan)  # fences are not modelled; none orders threads here
    endif()
    if(WHET_SANITIZE MATCHES undefined)
        target_compile_options(whet_flags INTERFACE -fno-sanitize-recover=all)
    endif()
    target_link_options(whet_flags INTERFACE -fsanitize=${WHET_SANITIZE})
    target_compile_definitions(whet_flags INTERFACE WHET_ASSERTIONS=1)
endif()
target_compile_definitions(whet_flags INTERFACE $<$<CONFIG:Debug>:WHET_ASSERTIONS=1>)

# Adds FOLDER when it has a CMakeLists.txt.
function(whet_add_folder folder)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
        add_subdirectory("${folder}")
    endif()
endfunction()

# whet_add_layer(NAME [SOURCES file...] [DEPENDS target...])
# A layer: one static, position-independent library that includes from the project's root. DEPENDS are public.
# Sub-folders add their files by target_sources(NAME PRIVATE ...). Without sources yet: an interface library.
function(whet_add_layer name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
    if(NOT arg_SOURCES)
        add_library(${name} INTERFACE)
        target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}")
        target_link_libraries(${name} INTERFACE ${arg_DEPENDS})
        return()
    endif()
    add_library(${name} STATIC ${arg_SOURCES})
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
    target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
    target_link_libraries(${name} PUBLIC ${arg_DEPENDS} Threads::Threads PRIVATE whet_flags)
endfunction()

# whet_add_shared(NAME [PRIVATE_LIBRARY] [EXPORTS version-script] SOURCES file... [DEPENDS target...])
# A shared library in lib/ (PRIVATE_LIBRARY: lib/whet/) that needs only libc, libm and the loader besides the shared
# libraries among DEPENDS, and exports what EXPORTS lists (without it: what is marked visible in its own sources).
function(whet_add_shared name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "PRIVATE_LIBRARY" "EXPORTS" "SOURCES;DEPENDS")
    add_library(${name} SHARED ${arg_SOURCES})
    if(arg_PRIVATE_LIBRARY)
        set(directory "${WHET_PRIVATE_LIB_DIR}")
        set(destination "${CMAKE_INSTALL_LIBDIR}/whet")
        set(rpath "$ORIGIN:$ORIGIN/..")
    else()
        set(directory "${WHET_LIB_DIR}")
        set(destination "${CMAKE_INSTALL_LIBDIR}")
        set(rpath "$ORIGIN")
    endif()
    set_target_properties(${name} PROPERTIES
        LIBRARY_OUTPUT_DIRECTORY "${directory}"
        BUILD_RPATH "${rpath}" BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "${rpath}")
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
    target_link_libraries(${name} PRIVATE whet_flags ${arg_DEPENDS} Threads::Threads)
    if(NOT WHET_SANITIZE)
        target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc -Wl,-z,defs)
    endif()
    target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,--as-needed)
    if(arg_EXPORTS)
        get_filename_component(script "${arg_EXPORTS}" ABSOLUTE)
        target_link_options(${name} PRIVATE "-Wl,--version-script=${script}")
        set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "${script}")
    endif()
    if(arg_PRIVATE_LIBRARY)
        install(TARGETS ${name} LIBRARY DESTINATION "${destination}")
        return()
    endif()
    string(REGEX REPLACE "^whet_" "" exported_name ${name})  # whet::whet, whet::blas, whet::torch
    set_target_properties(${name} PROPERTIES EXPORT_NAME ${exported_name})
    add_library(whet::${exported_name} ALIAS ${name})
    target_link_libraries(${name} PUBLIC whet_headers)
    install(TARGETS ${name} EXPORT whetTargets LIBRARY DESTINATION "${destination}")
endfunction()

# whet_add_identity(NAME TARGETS target... [FILES file...])
# The static library NAME defines the C string NAME: sixteen hexadecimal digits over the text of all sources of the
# targets and the files. It changes only when one of them does, and needs no version control.
function(whet_add_identity name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "TARGETS;FILES")
    set(files ${arg_FILES})
    foreach(target IN LISTS arg_TARGETS)
        get_target_property(sources ${target} SOURCES)
        get_target_property(directory ${target} SOURCE_DIR)
        foreach(source IN LISTS sources)
            cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${directory}" NORMALIZE)
            list(APPEND files "${source}")
        endforeach()
    endforeach()
    list(SORT files)
    list(REMOVE_DUPLICATES files)
    set(list "${CMAKE_CURRENT_BINARY_DIR}/${name}_files.cmake")
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
    file(CONFIGURE OUTPUT "${list}" CONTENT "set(files [==[${files}]==])\n")
    add_custom_command(OUTPUT "${source}"
        COMMAND "${CMAKE_COMMAND}" "-DFILES=${list}" "-DOUTPUT=${source}" -DNAME=${name} "-DROOT=${PROJECT_SOURCE_DIR}"
            -P "${PROJECT_SOURCE_DIR}/cmake/WhetIdentity.cmake"
        DEPENDS ${files} "${list}" "${PROJECT_SOURCE_DIR}/cmake/WhetIdentity.cmake"
        COMMENT "Reading the sources behind ${name}" VERBATIM)
    add_library(${name} STATIC "${source}")
    target_link_libraries(${name} PRIVATE whet_flags)
endfunction()

# whet_add_executable(NAME [PRIVATE_EXECUTABLE] SOURCES file... [DEPENDS target...])
# An executable in bin/ (PRIVATE_EXECUTABLE: lib/whet/).
function(whet_add_executable name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "PRIVATE_EXECUTABLE" "" "SOURCES;DEPENDS")
    add_executable(${name} ${arg_SOURCES})
    if(arg_PRIVATE_EXECUTABLE)
        set(directory "${WHET_PRIVATE_LIB_DIR}")
        set(destination "${CMAKE_INSTALL_LIBDIR}/whet")
        set(rpath "$ORIGIN:$ORIGIN/..")
    else()
        set(directory "${WHET_BIN_DIR}")
        set(destination "${CMAKE_INSTALL_BINDIR}")
        set(rpath "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}:$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/whet")
    endif()
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${directory}"
        BUILD_RPATH "${rpath}" BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "${rpath}")
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
    target_link_libraries(${name} PRIVATE whet_flags ${arg_DEPENDS} Threads::Threads)
    install(TARGETS ${name} RUNTIME DESTINATION "${destination}")
endfunction()

# whet_add_test(NAME SOURCES file... [LIBS target...] [LABELS label...] [TIMEOUT seconds] [ENVIRONMENT NAME=value...])
# A GoogleTest program; every TEST is one CTest case. Labels: unit (default), kernels, stress, golden, install, and
# threads: what ThreadSanitizer is for. The targets whet_LABEL_tests build the programs of one label.
function(whet_add_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LIBS;LABELS;ENVIRONMENT")
    if(NOT arg_LABELS)
        set(arg_LABELS unit)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    add_executable(${name} ${arg_SOURCES})
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" WHET_IS_TEST ON)
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
    target_link_libraries(${name} PRIVATE whet_flags ${arg_LIBS} GTest::gtest GTest::gtest_main Threads::Threads)
    gtest_discover_tests(${name}
        TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
        WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
        PROPERTIES TIMEOUT ${arg_TIMEOUT})
    # The discovery keeps the first of a property's values only: these two hold lists.
    set(properties "${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake")
    file(WRITE "${properties}" "if(${name}_TESTS)
    set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS [==[${arg_LABELS}]==] ENVIRONMENT [==[${arg_ENVIRONMENT}]==])
endif()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${properties}")
    foreach(label IN LISTS arg_LABELS)
        if(NOT TARGET whet_${label}_tests)
            add_custom_target(whet_${label}_tests)
        endif()
        add_dependencies(whet_${label}_tests ${name})
    endforeach()
endfunction()
