"""What a load takes: machines, cores, disk, memory and money, and what happens where there is too little."""
