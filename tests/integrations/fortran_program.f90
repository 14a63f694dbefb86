! SPDX-License-Identifier: Apache-2.0
! A Fortran program over BLAS, with the integers that the compiler's default kind has
! (-fdefault-integer-8: 64 bits). Compares with MATMUL; prints the largest difference of each step.
program fortran_program
    implicit none
    interface
        subroutine sgemm(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
            character(len=1), intent(in) :: transa, transb
            integer, intent(in) :: m, n, k, lda, ldb, ldc
            real(4), intent(in) :: alpha, beta, a(lda, *), b(ldb, *)
            real(4), intent(inout) :: c(ldc, *)
        end subroutine sgemm
        subroutine sgemv(trans, m, n, alpha, a, lda, x, incx, beta, y, incy)
            character(len=1), intent(in) :: trans
            integer, intent(in) :: m, n, lda, incx, incy
            real(4), intent(in) :: alpha, beta, a(lda, *), x(*)
            real(4), intent(inout) :: y(*)
        end subroutine sgemv
    end interface

    character(len=1), parameter :: letters(6) = ['N', 'T', 'C', 'n', 't', 'c']
    integer, parameter :: sizes(3, 5) = reshape([67, 61, 37, 64, 48, 64, 1, 400, 400, 13, 5, 7, 101, 1, 1499], [3, 5])
    integer :: round, rounds, s, i, j
    character(len=16) :: argument
    logical :: wrong = .false.

    call get_command_argument(1, argument)
    read (argument, *) rounds
    do round = 1, rounds
        call random_init(.true., .true.)
        do s = 1, size(sizes, 2)
            do i = 1, size(letters)
                do j = 1, size(letters)
                    call check_gemm(letters(i), letters(j), sizes(1, s), sizes(2, s), sizes(3, s))
                end do
                call check_gemv(letters(i), 400, 500, 1, 1)
                call check_gemv(letters(i), 401, 499, 2, 3)
            end do
        end do
    end do
    if (wrong) stop 1

contains

    logical function is_plain(letter)
        character(len=1), intent(in) :: letter
        is_plain = letter == 'N' .or. letter == 'n'
    end function is_plain

    subroutine compare(name, got, expected, depth)
        character(len=*), intent(in) :: name
        real(4), intent(in) :: got(:)
        real(8), intent(in) :: expected(:)
        integer, intent(in) :: depth
        real(8) :: distance
        distance = maxval(abs(got - expected))
        if (.not. distance <= depth * 6.0d-8 * 8) then
            print *, name, ': differs by ', distance
            wrong = .true.
        end if
    end subroutine compare

    subroutine check_gemm(ta, tb, m, n, k)
        character(len=1), intent(in) :: ta, tb
        integer, intent(in) :: m, n, k
        real(4), allocatable :: a(:, :), b(:, :), c(:, :), old(:, :)
        real(8), allocatable :: left(:, :), right(:, :), expected(:, :)
        allocate (c(m + 2, n))
        if (is_plain(ta)) then
            allocate (a(m + 1, k))
        else
            allocate (a(k + 1, m))
        end if
        if (is_plain(tb)) then
            allocate (b(k + 1, n))
        else
            allocate (b(n + 1, k))
        end if
        call random_number(a)
        call random_number(b)
        call random_number(c)
        a = a - 0.5
        b = b - 0.5
        old = c
        if (is_plain(ta)) then
            left = a(1:m, :)
        else
            left = transpose(a(1:k, :))
        end if
        if (is_plain(tb)) then
            right = b(1:k, :)
        else
            right = transpose(b(1:n, :))
        end if
        expected = 1.5d0 * matmul(left, right) - old(1:m, :)
        call sgemm(ta, tb, m, n, k, 1.5, a, size(a, 1), b, size(b, 1), -1.0, c, size(c, 1))
        call compare('sgemm '//ta//tb, reshape(c(1:m, :), [m * n]), reshape(expected, [m * n]), k)
        if (any(c(m + 1:, :) /= old(m + 1:, :))) then
            print *, 'sgemm wrote between columns'
            wrong = .true.
        end if
    end subroutine check_gemm

    subroutine check_gemv(trans, m, n, incx, incy)
        character(len=1), intent(in) :: trans
        integer, intent(in) :: m, n, incx, incy
        real(4), allocatable :: a(:, :), x(:), y(:), old(:)
        real(8), allocatable :: expected(:), x_dense(:)
        integer :: rows, depth
        rows = merge(m, n, is_plain(trans))
        depth = merge(n, m, is_plain(trans))
        allocate (a(m + 3, n), x(depth * incx), y(rows * incy))
        call random_number(a)
        call random_number(x)
        call random_number(y)
        a = a - 0.5
        old = y
        x_dense = x(1::incx)
        if (is_plain(trans)) then
            expected = matmul(dble(a(1:m, :)), x_dense)
        else
            expected = matmul(transpose(dble(a(1:m, :))), x_dense)
        end if
        expected = expected + 0.5d0 * old(1::incy)
        call sgemv(trans, m, n, 1.0, a, size(a, 1), x, incx, 0.5, y, incy)
        call compare('sgemv '//trans, y(1::incy), expected, depth)
    end subroutine check_gemv
end program fortran_program
